"""What is particular to each server: how it is found, validated, started and proved live."""
