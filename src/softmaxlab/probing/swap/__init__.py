"""Other attention maps in a pretrained model: swapped in, calibrated, saved."""
