"""relatum inside other programs: one module for each host, which needs the extra of that host."""
