"""From records to text: one record's page, and tables that compare records."""
