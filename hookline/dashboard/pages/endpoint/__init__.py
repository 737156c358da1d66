"""The pages of one endpoint."""
