"""The one exception that means: the user asked for something that cannot be done."""


class UserError(ValueError):
    """A mistake in what the user gave us; the message says what, where and what to do.

    The command line prints it as one line and exits with code 2. Anything else that escapes is our bug.
    """
