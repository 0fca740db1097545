"""Every emotion of the contract in words: its family, how one would name the feeling, and what to call the person.

Families decide what a *wrong* emotion is: sadness called depression is no error a judge should be taught,
sadness called anger is.
"""

# ruff: noqa: E501 - one pattern, one line

from __future__ import annotations

import msgspec


class Feeling(msgspec.Struct, frozen=True):
    family: str
    names: tuple[str, ...]  # "what I hear is …"
    states: tuple[str, ...]  # "they are …"


def _f(family: str, names: str, states: str) -> Feeling:
    return Feeling(family, tuple(names.split("; ")), tuple(states.split("; ")))


FEELINGS: dict[str, Feeling] = {
    "anxiety": _f("fear", "anxiety; worry that will not settle; dread of what may come; a mind running ahead to the worst; unease about what is next", "anxious; worried; on edge about what comes"),
    "fear": _f("fear", "fear; something like fright; the sense of a threat close by; being scared", "afraid; scared; frightened"),
    "nervousness": _f("fear", "nervousness; jitters before something; the nerves one has before a test", "nervous; jumpy; keyed up"),
    "sadness": _f("sadness", "sadness; sorrow over what is gone or missing; a plain, heavy sadness; hurt that has turned to sorrow", "sad; sorrowful; down about it"),
    "depression": _f("sadness", "depression; a heaviness in which little matters; a long grey low; the flatness of someone worn down by it", "depressed; low for a long time now; weighed down"),
    "grief": _f("sadness", "grief; mourning; missing someone who will not come back", "grieving; in mourning; bereft"),
    "hopelessness": _f("sadness", "hopelessness; seeing no way forward; despair, quietly put", "without hope; out of hope; at the end of their hope"),
    "loneliness": _f("sadness", "loneliness; being cut off from people; the want of someone near", "lonely; alone with it; cut off"),
    "disappointment": _f("sadness", "disappointment; a hope that came to nothing; being let down", "disappointed; let down"),
    "pain": _f("sadness", "pain; hurt, from someone who mattered; a wound more than a mood", "hurting; in pain; wounded"),
    "exhaustion": _f("sadness", "exhaustion; having nothing left to give; tiredness right through", "exhausted; spent; tired to the bone"),
    "frustration": _f("anger", "frustration; being blocked again and again; running into the same wall", "frustrated; fed up with trying; stuck and chafing"),
    "anger": _f("anger", "anger; being wronged and hot about it; rage held in; a sense of injustice with heat in it", "angry; furious underneath; up in arms"),
    "annoyance": _f("anger", "annoyance; irritation at the same thing again; being needled", "annoyed; irritated"),
    "disapproval": _f("anger", "disapproval; the sense that this is not right", "disapproving; not willing to accept it"),
    "disgust": _f("anger", "disgust; revulsion at what was done; wanting no part of it any more; being sickened by it", "disgusted; repelled; sickened"),
    "jealousy": _f("anger", "jealousy; seeing another have what they lack", "jealous; envious"),
    "shame": _f("shame", "shame; feeling wrong as a person; wanting not to be seen like this; a poor view of themselves", "ashamed; small in their own eyes; ashamed of themselves"),
    "embarrassment": _f("shame", "embarrassment; having been seen in an awkward light", "embarrassed; mortified"),
    "guilt": _f("shame", "guilt; the sense of having done wrong by someone; a debt they feel they owe", "guilty; at odds with what they did"),
    "remorse": _f("shame", "remorse; wishing it undone", "remorseful; sorry for what they did"),
    "confusion": _f("open", "confusion; not being able to make sense of it; too many loose ends at once", "confused; at a loss"),
    "nostalgia": _f("joy", "nostalgia; tender longing for what was", "nostalgic; turned to the past"),
    "neutral": _f("open", "no marked feeling; something even, neither up nor down; calm, or a face that shows nothing", "calm; even; matter-of-fact"),
    "surprise": _f("open", "surprise; not having seen it coming", "surprised; taken aback"),
    "realization": _f("open", "a thing becoming clear to them; something dawning", "seeing it clearly all at once; struck by a thought"),
    "curiosity": _f("open", "curiosity; wanting to know", "curious; interested"),
    "anticipation": _f("joy", "anticipation; looking towards what is coming", "looking forward; expectant"),
    "hope": _f("joy", "hope; a belief that it may turn out well; a bit of light", "hopeful; more hopeful than before"),
    "relief": _f("joy", "relief; a weight gone; breathing out", "relieved; lighter"),
    "gratitude": _f("joy", "gratitude; real thanks; being touched that someone helped", "grateful; thankful"),
    "joy": _f("joy", "joy; gladness; something light and glad", "glad; happy"),
    "contentment": _f("joy", "contentment; being at peace with how it is", "content; at peace with it"),
    "amusement": _f("joy", "amusement; finding it funny", "amused; laughing"),
    "excitement": _f("joy", "excitement; being stirred by something good", "excited; stirred up in a good way"),
    "pride": _f("joy", "pride; being pleased with what they did", "proud; pleased with themselves"),
    "confidence": _f("joy", "confidence; trusting themselves to manage", "confident; sure they can"),
    "trust": _f("joy", "trust; feeling safe with someone", "trusting; at ease with someone"),
    "love": _f("joy", "love; deep warmth for someone", "full of love; loving"),
    "caring": _f("joy", "care for someone else; wanting another to be well", "caring; concerned for another"),
    "admiration": _f("joy", "admiration; being impressed by someone", "full of admiration; impressed"),
    "approval": _f("joy", "approval; finding it right", "approving; in favour of it"),
    "desire": _f("joy", "longing; wanting something badly", "longing; full of want"),
}  # fmt: skip


def family(emotion: str) -> str:
    """The family an emotion belongs to.

    >>> family("depression") == family("sadness"), family("anger") == family("sadness")
    (True, False)
    """
    return FEELINGS[emotion].family
