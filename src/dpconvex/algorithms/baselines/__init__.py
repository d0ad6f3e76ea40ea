"""Methods that users know from elsewhere, proved and calibrated here."""
