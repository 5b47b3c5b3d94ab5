"""Apply retention categories and legal holds, export data, and process privacy requests with their deadlines."""
