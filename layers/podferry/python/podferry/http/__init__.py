"""HTTP in, use cases, HTTP out. No rule of the product lives here."""
