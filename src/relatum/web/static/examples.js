// A text for the "Example" button: for models that know drugs, and for all others.

const NEWS = `LISBON, Portugal (AP) - Marta Figueira, a spokeswoman for the Portuguese Railway Company in Lisbon, said on Tuesday that the night train to Madrid will run again in June. Joao Sarmento, who lives in Porto and drove the train for twelve years, called the decision overdue.

Erik Dahl of Hammerfest, Norway, joined the Nordic Ferry Council in Copenhagen, Denmark, last year. His sister Ingrid Dahl lives in Bergen.`;

const DRUGS = `A 54-year-old woman developed severe hyponatremia three days after she started sertraline. We conclude that sertraline can cause hyponatremia in patients who also take thiazides.

Two patients had seizures and transient blindness during treatment with cyclosporine and high-dose methylprednisolone.`;

export const example = (model) => (model?.entity_types.some((type) => /drug/i.test(type)) ? DRUGS : NEWS);
