"""Apply categories, legal holds, exports, privacy requests and their deadlines."""
