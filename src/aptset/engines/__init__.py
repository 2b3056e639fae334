"""Engines that hold rows on many machines: thin, over batches of Arrow."""
