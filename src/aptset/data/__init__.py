"""The nouns that everyone uses: labels, tables, tensors, groups, sets, levels. Each with its checks.

Only checks raise about user input, here and in the ``checks.py`` of other rooms. Every message names the argument, the
rule, the value that came, and the way out.
"""
