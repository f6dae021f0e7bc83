"""Tables, their schema, their splits, and the batches made of them."""
