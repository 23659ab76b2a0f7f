package events

// FactJob is the job that a fact of the leader is about; 0 if it is about none.
func FactJob(f *Fact) uint32 {
	switch f := f.GetKind().(type) {
	case *Fact_Admitted:
		return f.Admitted.GetJob()
	case *Fact_Placed:
		return f.Placed.GetJob()
	case *Fact_PlacedTogether:
		if parts := f.PlacedTogether.GetParts(); len(parts) > 0 {
			return parts[0].GetJob()
		}
	case *Fact_Stopping:
		return f.Stopping.GetJob()
	case *Fact_Ended:
		return f.Ended.GetJob()
	case *Fact_Held:
		return f.Held.GetJob()
	case *Fact_Released:
		return f.Released.GetJob()
	case *Fact_Updated:
		return f.Updated.GetJob()
	case *Fact_Requeued:
		return f.Requeued.GetJob()
	case *Fact_Signalled:
		return f.Signalled.GetJob()
	case *Fact_Suspended:
		return f.Suspended.GetJob()
	case *Fact_Resumed:
		return f.Resumed.GetJob()
	}
	return 0
}

// Placements are the starts that a fact tells of: none, one, or those of the components of a heterogeneous job.
func Placements(f *Fact) []*Placed {
	if p := f.GetPlaced(); p != nil {
		return []*Placed{p}
	}
	return f.GetPlacedTogether().GetParts()
}

// IntentTargets are the jobs that an act of control names one by one. Nothing for other intents, for those that name
// jobs by a filter only, and for bodies that do not decode.
func IntentTargets(i *Intent) []*Target {
	switch i.GetVerb() {
	case Verb_CANCEL:
		m := &Cancel{}
		if m.UnmarshalVT(i.GetBody()) == nil {
			return m.GetTargets()
		}
	case Verb_HOLD, Verb_RELEASE, Verb_SUSPEND, Verb_RESUME:
		m := &Select{}
		if m.UnmarshalVT(i.GetBody()) == nil {
			return m.GetTargets()
		}
	case Verb_REQUEUE:
		m := &Requeue{}
		if m.UnmarshalVT(i.GetBody()) == nil {
			return m.GetTargets()
		}
	case Verb_UPDATE_JOB:
		m := &UpdateJob{}
		if m.UnmarshalVT(i.GetBody()) == nil {
			return m.GetTargets()
		}
	}
	return nil
}
