"""The doors: how messages get in and out. Transports know sessions, and no server or client."""
