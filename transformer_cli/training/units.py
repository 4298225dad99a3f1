"""Format durations and sizes for people."""


def duration(seconds: float) -> str:
    """Format an estimated duration."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if minutes < 90:
        return f"{round(minutes)} min"
    return f"{hours:.1f} h" if hours < 48 else f"{days:.1f} days"


def size(count: int) -> str:
    """Format bytes in MB or GB (powers of 1,000)."""
    return f"{count / 1e9:.1f} GB" if count >= 999.5e6 else f"{max(1, round(count / 1e6))} MB"
