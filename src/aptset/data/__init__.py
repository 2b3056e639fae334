"""The nouns that everyone uses: labels, tables, tensors, groups, sets. Each with its checks."""
