"""Looking after stores."""
