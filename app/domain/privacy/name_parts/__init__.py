"""Parts of names, which may mean a person or another one."""
