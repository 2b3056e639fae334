"""The border: the only room that raises about user input.

Every message names the argument, the rule, the value that came, and the way out.
"""
