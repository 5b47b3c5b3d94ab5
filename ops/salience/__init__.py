"""Fit the weights of the keep chance to labelled conversations, and measure the rules on them."""
