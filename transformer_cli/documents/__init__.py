"""Translators' files and other documents: their segments, and translations put in their place."""
