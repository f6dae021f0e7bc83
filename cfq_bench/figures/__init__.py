"""The paper's kinds of figures, drawn from a suite's results: `draw.draw_figures`."""
