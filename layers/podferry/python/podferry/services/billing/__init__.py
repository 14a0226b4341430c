"""The bill: metering, credits, and what users read of it (docs/billing.md)."""
