"""`hookline bench`: measures Hookline on the machine of the user, with temporary databases and receivers on loopback."""
