"""Tables, figures, statistics and videos of runs and experiments."""
