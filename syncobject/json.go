package syncobject

// Of all structs, what is unknown is kept.

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) { return o.unknown.encode(o) }

// UnmarshalJSON implements json.Unmarshaler. It checks nothing; see Parse.
func (o *Object) UnmarshalJSON(data []byte) error { return o.unknown.decode(data, o) }

// MarshalJSON implements json.Marshaler.
func (h Holder) MarshalJSON() ([]byte, error) { return h.unknown.encode(h) }

// UnmarshalJSON implements json.Unmarshaler.
func (h *Holder) UnmarshalJSON(data []byte) error { return h.unknown.decode(data, h) }

// MarshalJSON implements json.Marshaler.
func (s SourceState) MarshalJSON() ([]byte, error) { return s.unknown.encode(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *SourceState) UnmarshalJSON(data []byte) error { return s.unknown.decode(data, s) }

// MarshalJSON implements json.Marshaler.
func (d DestinationState) MarshalJSON() ([]byte, error) { return d.unknown.encode(d) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *DestinationState) UnmarshalJSON(data []byte) error { return d.unknown.decode(data, d) }

// MarshalJSON implements json.Marshaler.
func (d Decision) MarshalJSON() ([]byte, error) { return d.unknown.encode(d) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Decision) UnmarshalJSON(data []byte) error { return d.unknown.decode(data, d) }

// MarshalJSON implements json.Marshaler.
func (s Set) MarshalJSON() ([]byte, error) { return s.unknown.encode(s) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Set) UnmarshalJSON(data []byte) error { return s.unknown.decode(data, s) }

// MarshalJSON implements json.Marshaler.
func (i Item) MarshalJSON() ([]byte, error) { return i.unknown.encode(i) }

// UnmarshalJSON implements json.Unmarshaler.
func (i *Item) UnmarshalJSON(data []byte) error { return i.unknown.decode(data, i) }

// MarshalJSON implements json.Marshaler.
func (l List) MarshalJSON() ([]byte, error) { return l.unknown.encode(l) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *List) UnmarshalJSON(data []byte) error { return l.unknown.decode(data, l) }

// MarshalJSON implements json.Marshaler.
func (o Owner) MarshalJSON() ([]byte, error) { return o.unknown.encode(o) }

// UnmarshalJSON implements json.Unmarshaler. It checks nothing; see ParseOwner.
func (o *Owner) UnmarshalJSON(data []byte) error { return o.unknown.decode(data, o) }
