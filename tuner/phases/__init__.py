"""The phases of a study: functions of a bench and of what the phases before them found."""
