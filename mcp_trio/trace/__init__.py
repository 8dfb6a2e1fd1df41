"""What crossed the wire: recorded, put together to calls, judged by the laws, shown as text."""
