"""How what is tried inside an emulated machine is told: "yes WHAT" or "no WHAT"."""


def answer(name, question):
    """Prints it; returns whether it is so, and why not."""
    try:
        truth, why = question(), ""
    except Exception as error:  # every failure is an answer
        truth, why = False, repr(error)
    print("yes" if truth else "no", name, flush=True)
    return truth, why
