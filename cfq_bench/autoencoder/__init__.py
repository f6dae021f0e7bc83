"""The autoencoder of an image data set: the latent space that actions live in."""
