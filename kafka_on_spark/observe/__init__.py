"""Descriptions, histories, metrics, what-if, and pictures."""
