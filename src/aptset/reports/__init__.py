"""The report: ``summarise`` computes, ``render`` draws one HTML file that works offline."""
