from ops.checks import schema_page


def test_write(database_url: str) -> None:
    schema_page.PAGE.write_text(schema_page.page(database_url))
