"""How the ceilings of each chip family are measured, once per device."""
