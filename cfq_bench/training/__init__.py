"""The Lightning trainer that teachers and methods share."""
