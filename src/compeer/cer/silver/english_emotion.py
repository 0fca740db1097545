"""English for the second step: what shows the feeling (SIGNS), which feeling it is (READING), how strong (DEGREE).

Slots: {quote} verbatim, {word} a feeling word of theirs, {seen} what a camera saw, {topic}; {name}, {state} of the
feeling concluded and {other} of one that is not meant; {degree} the strength in words.
"""

# ruff: noqa: E501 - one pattern, one line

from __future__ import annotations

#: words by which people give a feeling away, by family; looked for in what they wrote
GIVEAWAYS: dict[str, str] = {
    "fear": "anxious|anxiety|worried|worry|worrying|scared|afraid|nervous|panic|terrified|stress|stressed|stressful|fear|uneasy|overwhelmed|overwhelming|scary",
    "sadness": "sad|depressed|depression|depressing|lonely|alone|cry|crying|cried|miss|hopeless|empty|down|hurt|hurts|lost|miserable|heartbroken|tired|exhausted|worthless|devastated|upset",
    "anger": "angry|anger|mad|furious|hate|unfair|frustrated|frustrating|annoyed|annoying|disgusted|disgusting|betrayed|lied|cheated|rude|jealous|pissed|sick of",
    "shame": "ashamed|shame|embarrassed|embarrassing|guilty|guilt|failure|stupid|fault|blame|regret|worthless|disappointed|loser",
    "joy": "happy|glad|better|grateful|thankful|hopeful|relieved|love|excited|proud|good",
    "open": "confused|wonder|unsure|strange|weird|okay|fine",
}

SIGNS: dict[str, tuple[str, ...]] = {
    "any": (
        "{quote}[: nobody writes that lightly|. That is not said lightly|. I stop at that|. One hears it|. It is all in there].",
        "{quote}[, and then they go on as if it were nothing| is not how someone writes who is untouched by it| tells me more than they may know].",
        "[I listen to how they say|The tell is in|What gives it away is|Look at the wording of|My eye stays on] {quote}.",
        "[When|The way] they [write|put it as|come out with] {quote}, [it is not the facts that speak|something shows through|the voice changes|the feeling is close to the surface].",
        "[It shows in|You can see it in|It comes through in|There it is, in] {quote}[, more than in anything they explain|, if anywhere|].",
        "[They do not name it|No feeling is named|They never say what they feel], [but|yet] {quote} [does it for them|says it|is a name of a kind].",
        "[First the facts, then|In the middle of the facts|Almost as an aside|Between two plain sentences]: {quote}.",
        "[Anyone who says|A person who says|Whoever writes] {quote} [is telling you how it is inside|has felt it for a while|is not at rest].",
        "[The feeling is tied to|It has to do with|It is stirred up by] {topic}, [going by|judging from|as in] {quote}.",
        "[Reading|Hearing|Turning over] {quote}, I [ask myself what that feels like|try to feel what they feel|look for what is under it].",
        "{quote}, and {quote2}[: the same note twice|. Both have the same colour|. I take them together].",
        "[Take|Put] {quote} [next to|beside|together with] {quote2}[ and there is little doubt| and the mood is plain|, and it sounds like one feeling].",
        "[What do I hear in|What is in|What lies behind] {quote}? [Not calm, at any rate|Something they have had for a while|More than the words].",
        "{seen}[. The face goes with the words|. That is not only in the words|, and the words fit].",
        "[Going by what one sees|To look at them|On the outside]: {seen}.",
        "[It is not only what they say, it is|Past the content there is|Between the facts stands] {quote}[, and that has a temperature|, and one feels the strain|].",
        "[Imagine saying|Try saying|Say it aloud]: {quote}. [The throat tightens|It does not come out flat|One hears where it catches].",
        "{Fact}[; no one goes through that cold|. What does that do to a person?|, and it leaves a mark|, and the mood follows from it].",
        "[After|Given that] {fact}, [a feeling like this is no riddle|I would be surprised by calm|the tone makes sense].",
        "[They return to|They come back to|Twice now they touch] {topic}, [and every time the tone shifts|and it is never neutral]: {quote}.",
        "[A sentence like|A line like|A phrase such as] {quote} [is a small window|lets one look in|is not information, it is mood].",
        "[If I leave out the facts|Without the facts], what remains is {quote}[, and that is feeling| and how it sounds|].",
        "[They hold themselves together|They keep it tidy], and [then it slips out|still it shows]: {quote}.",
        "[What they avoid saying|What is missing] [tells me something too|counts as well]; [closest to it comes|nearest they get is] {quote}.",
        "[With {topic} it is personal|Where {topic} comes in, it is personal]: {quote}.",
        "{quote2}[, first|, earlier]; {quote}[, later|, now]. [The line points one way|I do not hear two moods in that|It has not let up between the two].",
    ),
    "word": (
        "[They use the word|The word they choose is|It was they who said|They call it] {word}[, not I|, and I believe it|, and I leave it at that|].",
        "{word}[: their word|, they say|, that is the word they found], and {quote}.",
        "[The word|That one word,|Of all words,|A small word,|One word,] {word} [keeps ringing|did not come by accident|is the one to hold on to].",
    ),
    "loud": (
        "[The exclamation marks|So many exclamation marks|The punctuation alone] [give it away|show there is force in it|are not for decoration]: {quote}.",
    ),
    "trailing": (
        "[The dots|Those dots|The sentences that trail off] [say as much as the words|leave something hanging|tell me they hold back]: {quote}.",
    ),
    "laugh": (
        "[They laugh it off|There is a laugh in it|A laugh, in writing], [and I do not quite believe the laugh|which is one way of bearing it|but listen to]: {quote}.",
    ),
    "short": (
        "[So few words|The brevity|How little they write] [is a sign of its own|says something too|makes me careful], {quote} [and no more|being all there is].",
    ),
    "thanks": (
        "[They are thanking me|The thanks is real|Their tone is friendlier], [but what was there has not gone altogether|and still there is {quote}|yet the feeling they came with is not just gone].",
    ),
}  # fmt: skip

READING = (
    "[That is|I read it as|I hear|What I hear is|It comes across as|I would call it|To me it is] {name}[, not {other}| rather than {other}| more than {other}|].",
    "[Under it|Beneath that|At the core|At bottom|Deep down] [is|I find|there is] {name}[, and not {other}|, whatever else comes with it|].",
    "[They are|They seem|I think they are|I take them to be|It sounds as though they are] {state}[, not {otherstate}| more than {otherstate}|].",
    "[{Other} would sound different|If it were {other} I would expect another tone|One could mistake it for {other}|It may look like {other}]; [this is|I think it is|what I feel in it is] {name}.",
    "{Name}[, I think|, then|, above all|, first of all|, if I had to choose one word].",
    "[Somebody who is {state} talks like this|So speaks a person who is {state}|People who are {state} put things this way].",
    "[Not so much {other}|Less {other}|Hardly {other}|Only a little {other}], [more|rather|mostly] {name}.",
    "[My guess is|My reading is|I settle on|I come out at|If I name it, it is|It adds up to] {name}[; {other} does not fit|].",
    "[They may not say it themselves, but they are|Unsaid, but there: they are|Without a doubt they are|I have the feeling they are] {state}.",
    "[The feeling that carries all this|What colours everything|The ground tone|What speaks here|The main thing they feel] is {name}.",
    "[I thought of {other} first, but it is|At first I wanted to say {other}; it is|{Other} was my first thought, then I saw] {name}.",
    "[Is it {other}? No|{Other}? I do not think so|Could it be {other}? Hardly]: {name}.",
    "[When I add it up|All told|On the whole|Weighing it] [it is|I find|I am left with] {name}[, with little {other} in it|].",
    "[Some would say {other}|Others might call it {other}|{Other} lies near]; [for me the weight is on|I lean towards|I hear more of] {name}.",
    "[Whoever is {state} writes like that|You write like that when you are {state}|One sounds like this when one is {state}][, I think|, and I take it at that|].",
    "[There is {name} in this|{Name} runs through it|{Name} is the colour of it][, start to end|, and only a trace of {other}|].",
    "[Take the words away and|Behind the words] they are {state}[, plain and simple|, not {otherstate}|].",
    "[If a friend asked me what is wrong I would say|In a word|Put simply|To name it]: {name}.",
    "[They might deny it, yet|Maybe they would not use the word, but] [to me they are|they come across as|I see someone who is] {state}.",
    "[What would I feel in their place?|What sits in the chest with that?|What is it, then?] {Name}[, most likely|, surely|, before anything else].",
    "[I hold {name} against {other} and the first fits|Between {other} and {name} I choose the second|It is closer to {name} than to {other}].",
)

DEGREE: dict[int, tuple[str, ...]] = {
    1: (
        "[There is|By now there is|I see] [barely a trace of it|hardly anything of it left|next to nothing of it].",
        "[It is faint|It hardly shows|It has almost gone|One has to look for it][, a one at most|].",
        "[As for strength|How strong]? [Barely there|As weak as it gets|Hardly worth a number].",
        "[Only an echo of it is left|It is a shadow of itself|It has all but settled].",
        "[They mention it more than they feel it|One could talk past it|It takes nothing from them right now].",
        "[On a scale I would put it at the very bottom|A one, if that|Lowest rung].",
    ),
    2: (
        "[It is mild|It is on the low side|It stays in the background|It does not rule them][, a two perhaps|, two of five|].",
        "[Not much of it|Only some of it|A little of it] [shows|is there|colours what they say] [now|at this point|].",
        "[As for strength|How strong]? [Mild|Rather little|They can live with it], I would say.",
        "[It is there|I notice it], but [quietly|softly|it does not push].",
        "[It comes and goes|It nags a little|It is a low hum], [nothing that takes over|and life goes on around it|that is all].",
        "[They have it in hand|They can set it aside|It has eased to something bearable], [two out of five|as far as I can see|for the moment].",
        "[Lighter than one might think|Less than the words suggest|On the gentle side], [I would guess|going by the tone].",
    ),
    3: (
        "[It is clear enough|It is plainly there|Nobody would miss it], [though it does not drown them|without running over|in the middle of the scale].",
        "[Middling|About the middle|Neither faint nor overwhelming], [a three|I would say|in strength].",
        "[As for strength|How strong]? [Somewhere in the middle|Three of five|Clear, and still manageable].",
        "[It weighs on them|It has some weight], [but they keep their feet|and they can still talk about it calmly].",
        "[It is real, and it is bounded|It has their attention, not all of it|It tugs at them without pulling them under].",
        "[Half full|Midway|In between], [three on a scale of five|not a storm and not a breeze|so I take it seriously without alarm].",
        "[They feel it and function|They carry it and still cope|It is a steady weight].",
    ),
    4: (
        "[It is strong|It runs strong|It has them firmly|It goes deep][, four of five|, though not the utmost|, and they feel it all the time|].",
        "[There is a lot of it|It takes up much room|It presses on everything][, close to too much|].",
        "[As for strength|How strong]? [Strong|High, a four|More than they can shrug off].",
        "[They can hardly put it aside|It does not leave them much rest|It colours the whole day].",
        "[It does not loosen its grip|It sits heavy|It is hard for them to think past it], [I would put it at four|short of the very top|and that shows].",
        "[Sleep, appetite, thoughts, it reaches into all of it|It gets into everything|Hardly an hour without it, I suppose].",
        "[More than strong, less than unbearable|Close to the edge of what one can take|High, and not just today].",
    ),
    5: (
        "[It is overwhelming|It is as strong as it gets|It floods them|It is more than they can hold].",
        "[There is hardly room for anything else|Everything else disappears behind it|It fills the whole picture].",
        "[As for strength|How strong]? [The top of the scale|A five|All the way up].",
        "[It has gone over their head|It takes their breath away|They are nearly drowning in it].",
        "[Nothing else fits in beside it|It is the whole of them right now|It has swallowed the rest].",
        "[I cannot think of stronger|It could not be much worse|The scale ends here].",
        "[They are at the limit|They can barely hold it|It spills over], [five of five|and it shows in every line|that is how strong].",
    ),
}  # fmt: skip
