"""The report page: one HTML file that opens from disk without a network, and the same page live.

Python reads run directories into plain data (`document.py`); `assets/page.js` draws any such data with Plotly, whose
script comes out of its own package. The live page (`live.py`) hands the same data out again and again.
"""

from masp.report.page.document import write_report

__all__ = ["write_report"]
