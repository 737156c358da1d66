"""The pages of one message."""
