"""Simulated GPU providers: the wire APIs of real ones, with real boxes behind them."""
