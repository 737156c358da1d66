"""None: the outbox is written by `publish` and read by Hookline. Django tells only apps that have this module of a migration."""
