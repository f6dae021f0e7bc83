"""What can be proved about one point: no network of a set, no point of a box changes the answer."""
