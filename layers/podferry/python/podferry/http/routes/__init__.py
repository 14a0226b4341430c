"""The routes of users, one module for each area."""
