"""The real decisions on a virtual clock: what an endpoint sees after an outage, and a fleet that no machine here can hold."""
