"""Stand-ins for hardware, written from the authorities' documents: they run what was compiled."""
