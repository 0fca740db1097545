"""English replies made from the seeker's own words, and generic ones made from nobody's.

Slots: {you} their sentence said to them, {quote} their words, {topic} "your boss", {feeling} "worried".
A made reply is good where the words are this seeker's and off the point where they are another's; the patterns
are the same, so only the conversation tells which.
"""

# ruff: noqa: E501 - one pattern, one line

from __future__ import annotations

MADE: dict[str, tuple[str, ...]] = {
    "question": (
        "[You said|You wrote|You mentioned] {you}. [What has that been like|How long has that been going on|When did that start|How are you dealing with it|What bothers you most about it]?",
        "[So|Okay, so|Hm,] {you}. [Can you tell me more about that|What happened then|What went through your mind|How did that feel]?",
        "[Can I ask about|I'd like to hear more about|Tell me about] {topic}. [What is going on there|How are things between you|What would you want to be different]?",
        "[When you say|You say] {quote}, [what do you mean by that|what is the hardest part|is there more behind it]?",
        "[What is it about|What do you think is behind] {topic} [that gets to you|that makes it so hard]? {You} [- since when|- was there a moment it changed]?",
    ),
    "restatement or paraphrasing": (
        "[So if I understand you|Let me see if I got this|So what I am hearing is that|If I got that right], {you}. [Is that it|Did I get that right|Have I understood]?",
        "[In other words|So basically|To put it differently], {you}[, and it all comes back to {topic}|].",
        "[You are telling me|You're saying] {you}[, and that is the main thing right now|, is that right?|].",
        "[It comes down to|What I take from this is] {quote}[. Is that about right?|.]",
    ),
    "reflection of feelings": (
        "[That must leave you|I imagine you are|You sound|It seems you are] [pretty|really|quite|] {feeling}, [since|with how|now that] {you}.",
        "{quote}, [you said|those were your words]. [I can hear how {feeling} you are|You sound {feeling}|That sounds like a lot to sit with].",
        "[I can tell that|I get the sense that] [things with {topic} have|this has] left you {feeling}. {You}, [and that gets to you|and nobody sees what it costs].",
        "[It hurts that|It weighs on you that|You are {feeling} because] {you}[, I can hear it|].",
    ),
    "affirmation and reassurance": (
        "[Saying|Just saying|To say] {quote} [out loud|so openly|to a stranger] [takes courage|takes some strength|is not nothing]. [You have not given up|You keep going|Give yourself credit for that].",
        "[It makes sense|No wonder|Anyone would find it hard|It's only human] that you feel [this way|{feeling}] about {topic}. [You are not doing anything wrong|You will get through this|Be a little kinder to yourself].",
        "[You are doing better than you think|You're handling more than most]. {quote}, [you say, and still you are here talking about it|you told me, and you face it anyway].",
        "[The way you talk about|How much you care about] {topic} [shows what kind of person you are|tells me a lot]. [It can get better|I believe you can do this].",
    ),
    "providing suggestions": (
        "[Maybe you could|Could you|Would it help to|What if you were to] [write down what you told me|tell someone close to you|take one small step this week|give yourself a day off from it]? {You}, [so something small might be enough|and it need not be solved at once].",
        "[Since|Seeing that] {you}, [maybe start with just one thing|perhaps talk to someone who knows it|you might take it one day at a time].",
        "[Have you thought about|How about] [talking about {topic} with someone you trust|setting aside a little time to think about {topic}|asking for help with {topic}]? [Just an idea|Only if it feels right|No need to decide now].",
    ),
}  # fmt: skip

GENERIC = (
    "[I understand|I see|I get it]. [Everything will be fine|Things will get better|Don't worry too much|Stay positive].",
    "[I'm sorry to hear that|Sorry about that|That's sad]. [Life is like that sometimes|Everyone has problems|It happens to all of us].",
    "[Just|You just have to|You should] [think positive|stay strong|relax and be happy|forget about it and move on|keep your head up].",
    "[That must be hard|That sounds difficult]. [I hope it gets better|Hope you feel better soon|Time heals everything].",
    "[Okay|Oh ok|Alright|Hmm okay]. [Is there anything else|What else|Anything more]?",
    "[Try to be happy|Try not to think about it|Do something fun|Go for a walk]. [It always works|You will be okay|All will be good].",
    "[Don't be sad|Don't worry, be happy|Cheer up]! [Tomorrow is another day|You got this|It's not the end of the world].",
    "[I can imagine|I know how you feel|I know exactly what you mean]. [Many people feel like that|We all feel that way|It is normal].",
    "[Everything happens for a reason|It is what it is|Such is life]. [Trust the process|Just accept it|You will see].",
    "[Thank you for sharing|Thanks for sharing that with me]. [I am here to help|I am always here for you|Let me know how I can help].",
)
