"""The whole system on one machine: embedded AWS, simulated GPU providers and real boxes."""
