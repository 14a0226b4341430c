"""What users send and get, as frozen models: the source of the API description."""
