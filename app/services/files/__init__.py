"""Show and change memories as files of the memory tool."""
