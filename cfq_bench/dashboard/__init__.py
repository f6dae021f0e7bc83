"""Records as one local page: tables and charts to filter and sort, live while a suite runs."""
