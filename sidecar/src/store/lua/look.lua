-- Changes nothing.
return changed(false)
