"""The runtime: sessions on nurseries, contexts, admission. The first room that imports trio."""
