"""English for the third step: what the moment asks for (NEED), what to do (PLAN), what not to do and why (AGAINST).

Slots: {last} and {quote} verbatim, {topic}; `{it}` in PLAN is the topic, or "this" where nothing is named.
"""

# ruff: noqa: E501 - one pattern, one line

from __future__ import annotations

NEED: dict[str, tuple[str, ...]] = {
    "any": (
        "[After|Following|In answer to|With] {last} [I should not just go on|something has to come back|the next word counts|there is a choice to make].",
        "{last}[. What would help with that?|. What does one say to that?|. So what now?|. And what do they need from me?]",
        "[They left me with|What I have to answer is|I am answering|On the table is] {last}.",
        "[If I were sitting next to them|If a friend said|Were I told] {last}, [what would be good to hear|what would I do|what would help]?",
        "[They said|They put it like this]: {last}. [I want to be of use, not clever|It should feel like a person answering|Whatever I do should fit that].",
        "[The weight of|The thing about] {last} is that [it can be answered in many ways|it needs the right kind of answer|it is easy to answer wrongly].",
        "[With {topic} on their mind|Thinking of {topic}|About {topic}, then], {last} [is where they stopped|is how they left it].",
        "[What would they want right now|What is needed here|What is the kind thing here]? [They wrote|There is|I look again at] {last}.",
        "[I take my lead from|My cue is|I start from|I go by] {last}.",
        "[Having read|Having heard] {last}, [I weigh what to do|I take a breath first|I think about the next step].",
        "[This far in|At this point|By now|Where we are], [with {last} just said|after {last}|and with {last} in mind], [the manner matters more than the content|one move is better than three].",
        "[Earlier it was|A while ago they said|Before, they told me] {quote}, [now|and now] {last}. [I answer the whole of it|I keep both in mind].",
        "{last}[ - I let that stand for a second| - I read it twice| - I do not want to talk over that].",
        "[Somewhere in|Inside|Under] {last} [there is a wish|is a request, spoken or not|I hear what they want], and [that is what I answer|it decides what I do].",
        "[They could have said anything, and they said|Of all things they chose to say|They end with] {last}.",
        "[So far|Up to now|Until here] {quote}[; and at the end|; and just now|, then] {last}.",
        "[What is the point of answering at all|What do I owe them|What is my part here], when [someone tells you|the words are|it says] {last}?",
        "[It is their turn to be answered|An answer is due|My turn]: {last}.",
        "[I ask myself what they will do with my answer to|Whatever I say lands on top of|The next sentence has to stand beside] {last}.",
        "{Fact}[, and so|, and from there|, which is why] {last} [does not surprise me|weighs more than it seems|wants care].",
        "[With someone whose|Talking to someone whose] [last words were|message ends on] {last}, [tone is half of it|I go slowly|little is plenty].",
        "[There are eight things I could do with|A dozen answers are possible to|One can meet] {last} [in more than one way|kindly or cleverly|head on or gently].",
    ),
    "short": (
        "[They gave me little to go on|That was brief|There is not much to hold on to]: {last}.",
        "[A few words only|So short an answer|Just a line], [so I should not overdo it|and I should not answer with a page|and silence around it].",
    ),
    "long": (
        "[They have poured out a lot|That was much at once|A long message deserves more than a nod], {last} [among it|most of all].",
    ),
    "asks": (
        "[They want something from me|They asked directly|There is a question to me]: {last}.",
        "[A question like|Asked] {last}, [one should not slip away|I owe them something|I cannot just nod].",
    ),
    "thanks": (
        "[They are saying thank you|There is thanks in the air|They sound grateful], [and that changes what is called for|so the pressure is off|and the talk may be closing].",
    ),
    "refuses": (
        "[They say no to something there|They are not taking that up|There is a but in it]: {last}.",
    ),
    "asked": (
        "[I have been asking|Questions have been asked], [and they answered|and here is the answer]: {last}.",
    ),
    "advised": (
        "[Advice has already been given|One idea is already out], [and they reply|and the reply is]: {last}.",
    ),
}  # fmt: skip

PLAN: dict[str, tuple[str, ...]] = {
    "question": (
        "[I would ask|Better to ask|I will ask|Let me ask|So I ask] [how things are with {it}|how it came to this|what lies behind it|more about {it}], [one thing and no more|and then wait|gently].",
        "[An open question|A single question|One good question] [about {it}|] [lets them tell it their way|would open this up|shows I want to know].",
        "[I want to hear more|I do not know enough|There is a piece missing], [so a question it is|so I will put a question|and only they can tell me].",
        "[Finding out|Asking on] is [the most useful thing I can do|what brings us further|what this needs].",
        "[What does|What exactly does] {quote} [mean to them|look like day to day|go back to]? [I will ask|Only they know, so I ask|That is my question].",
        "[Curiosity, the kind sort|Real interest|An honest wish to know] is [what I can offer|the best I have]: [how is it with {it}|what came before|what is hardest about {it}]?",
        "[I would rather know than guess|Guessing would be wrong|Before I assume anything], so [I put it as a question|I ask how {it} came into this|I ask, and leave room].",
        "[Leave the door open|Hand the word back to them] [with a question about {it}|by asking what they make of it|and let them lead].",
        "[The next piece of the story|Whatever comes next] should come from them; [asking about {it} invites it|a question, short and plain, does that].",
    ),
    "restatement or paraphrasing": (
        "[I would say it back|I will give it back|Let me say back] [in fewer words|more plainly|in my own words], [so they can hear it|to see whether I have it right|and let them correct me].",
        "[Putting what they said in one sentence|A short summary of {it}|Saying what I understood] [shows I followed|sorts it a little|lets them check it].",
        "[They should hear their own story once from outside|It helps to hear it from another mouth], [so I repeat the heart of it|so I will sum it up].",
        "[Make sure I got it|First check that I understood]: [say it back|repeat the main point] [and see if they nod|before anything else].",
        "[Their sentence|What they wrote], {quote}, [deserves to be heard back|can be said once more, simpler|I will turn into my own words].",
        "[Hold up a mirror|Be the mirror here]: [what I heard about {it}|the gist of it], [nothing added|and then wait].",
        "[I gather it up|I tie it together|I put the pieces side by side], {it} [included|and all], [so that we look at the same thing|so they see it laid out].",
        "[Before going on|Ahead of any step] I [want us to agree on what was said|check my picture of {it}|repeat it in short].",
        "[Let them hear that it arrived|Show it arrived]: {quote}, [in other words|the way I understood it].",
    ),
    "reflection of feelings": (
        "[I would put the feeling into words|Let me name what I think they feel|I will say what it seems to feel like][, carefully|, as a guess they can correct|].",
        "[Naming the feeling around {it}|Giving the feeling a name|A word for what they feel] [might make it less lonely|lets them feel understood|takes some of its weight].",
        "[What they feel should be said by someone|The feeling has to be seen], [so I reflect it|so I will mirror it], [not the facts|before the facts].",
        "[Show that I see how it is for them|Let them know how it comes across to me]: [that must feel a certain way, and I say which|the mood, in plain words].",
        "[Someone should say aloud what|I would say what] {quote} [feels like from inside|does to a person|carries with it].",
        "[Speak to the heart of it|Go to the feeling|Turn towards the feeling], [not to the story about {it}|and leave {it} aside for now|and stay there].",
        "[I try a word for it|I hold out a word], [they can take it or change it|tentatively], [because being felt with is what helps|since {it} hurts in a certain way].",
        "[If I get the feeling right|Once the feeling has a name], [the rest can breathe|they may not need to defend it|{it} gets a little lighter].",
        "[More than an answer|Rather than an answer], [they get back how it sounds|I give them the echo of what they feel about {it}].",
    ),
    "self-disclosure": (
        "[I would share something of my own|Something from my own life may help|I could tell a bit of my own story][, short, and then hand it back|, just enough that they are not the only one|].",
        "[If I say that I have been near this too|A few words about how I got through something like it|Letting them see I know {it} from inside] [makes me a person and not a counter|may take away the strangeness|builds a bridge].",
        "[They could use company|It helps to know one is not the only one], [so I tell them something similar of mine|so I say where I have stood].",
        "[Own experience, briefly|One honest line about myself]: [not to compare|so that they feel less odd], [then back to them|and no more].",
        "[I know something like {quote}|{quote} is not foreign to me|Hearing {quote}, I think of a time of my own], [and I can say so|and a sentence about it may help|so I will].",
        "[Step out from behind the desk|Be someone, too]: [a line about my own life|what I did when it was me|how it went for me].",
        "[Two people who know it are better than one|They should not feel like a case], [so I show a bit of myself|so I tell mine, small].",
        "[What carried me|How I came through] [may be worth more than a rule|is all I can honestly give], [kept to two sentences|and then back to {it}].",
    ),
    "affirmation and reassurance": (
        "[I would tell them what I see them doing right|They should hear what is strong in them|I will point to what they have managed][, honestly|, without laying it on|].",
        "[A word of encouragement|Some honest reassurance|Backing them up] [about {it}|] [is what carries them on|would steady them|is due].",
        "[They doubt themselves|They need some ground], [so I affirm what is good in what they do|so I give them credit|and I can give them that].",
        "[Say that it makes sense|Let them know they are not wrong], [that they will get through|that there is strength in it|and mean it].",
        "[That they say|Being able to say] {quote} [takes something, and I will say so|is worth a word of respect|already shows strength].",
        "[They are harder on themselves than on anyone|They see only what is lacking], [so I name what is there|so I speak for them once|and someone should weigh in on their side].",
        "[Encouragement, with a reason|Not flattery, a fact]: [what they did about {it}|that they came here|that they go on].",
        "[Steady them|Give them a hand on the shoulder], [say it is human|say that {it} can turn|say they are not to blame].",
        "[I believe they can do it|I do think they will manage], and [hearing that about {it} matters|it helps to be told|I should not keep that to myself].",
    ),
    "providing suggestions": (
        "[I would offer something to try|One small idea|I could suggest a step|A concrete step][, theirs to refuse|, no bigger than today|, put as a maybe|].",
        "[They could do something about {it}|There is something they could try], [and I will say what|so I put it forward lightly|and I have an idea].",
        "[A practical hint|Something they can take hold of|A next step] [would be worth more than another kind word|is what moves this|might loosen it].",
        "[Think along with them|Help them plan]: [what could be done first|one thing for this week|the easiest bit of {it}], [as an offer|if they like].",
        "[For|With] {quote}[, there are things one can try| in the room, a first step helps|, I have one thought], [and I offer one|as a possibility|not more than that].",
        "[Shrink it|Make it small]: [one thing about {it} they can do tomorrow|the first bit only|something with a beginning and an end].",
        "[They want to move|They are asking, more or less, for a way], so [I propose something about {it}|I put an option on the table|I give them a handle].",
        "[What has helped others|What I would try] [could help here|is worth saying], [as long as it stays theirs to choose|put gently, about {it}].",
        "[From feeling to doing|Out of the circle]: [a plan for {it}, in pencil|a small experiment|one practical thing].",
    ),
    "information": (
        "[I would tell them something they may not know|A fact would help|There is something worth knowing here|I can explain a bit][, plainly|, without a lecture|].",
        "[Knowing how such things usually go|Some information about {it}|Hearing where help can be found] [takes out some of the fog|gives them ground|lets them judge for themselves].",
        "[Part of it is not knowing|They are missing a piece of knowledge], [so I supply it|so I say what I know about it].",
        "[What is known about this|How it works]: [say it simply|put it in two sentences], [and let them draw the conclusion|no opinion added].",
        "[Behind|To] {quote} [there is a plain answer|I can add a fact|goes a piece of knowledge], [and they should have it|so I pass it on].",
        "[Clear up what can be cleared up|Where facts exist, give them]: [how it is with {it}|where to turn|what usually follows].",
        "[A bit of light on {it}|Knowing more about {it}], [no more than needed|said the way one tells a friend], [makes it less of a monster|lets them choose].",
        "[They are guessing|They are in the dark about {it}], and [I happen to know|there is something to know], [so I share it|so I tell them].",
    ),
    "others": (
        "[Nothing clever|No technique|Nothing special is needed], [just the ordinary thing one says|just answer like a human being|a plain friendly word].",
        "[This is plain human exchange|It is simply a matter of manners and warmth|Here it is enough to be there]: [a greeting, a thank you, a wish|a few words|say the simple thing].",
        "[Keep the contact going|Let the talk breathe], [with an ordinary sentence|by simply answering|in a light tone].",
        "[I would just respond|I will simply be friendly|So I answer in kind], [as one does|without steering|and leave it open].",
        "[After|To] {quote} [one just says something friendly|an ordinary word is right|I need no method].",
        "[Be a person first|People talk like this all the time]: [a short reply|a kind sentence|a bit of small talk], [that is all|and it is enough].",
        "[Neither dig nor push|No digging, no pushing]; [acknowledge {it} and be there|say thanks or hello or goodbye as it comes|keep it human].",
        "[The moment is light|It is a small moment], [so my answer is light too|and small words suit it|so I simply go along].",
    ),
}  # fmt: skip

AGAINST: dict[str, tuple[str, ...]] = {
    "question": (
        "[Another question|Asking again|More questions] [would feel like an interview|would only delay|would put the work on them].",
        "[I could ask on|Asking would be easy|I have another question ready], but [they have told enough|that would be hiding behind a question].",
        "[They came with {quote}|They have already laid out {it}]; [to keep asking|one more question] [would be prying|wears them out].",
        "[What, when, how|Asking why and since when]: [not now|that can come later|it would turn the talk into a form].",
    ),
    "restatement or paraphrasing": (
        "[Repeating it back|A summary|Saying it again] [would sound hollow|adds nothing they do not know|is not enough here].",
        "[I might just paraphrase|One could sum it up], but [that would be an echo|they know what they said].",
        "[Saying {it} back at them|Echoing {quote}] [would leave us standing still|would sound like a machine|gives them nothing to hold].",
        "[Only to repeat|Summing up] [would be safe and useless|is what one does when one has nothing to say].",
    ),
    "reflection of feelings": (
        "[Naming the feeling|Talking about the feeling|More about how it feels] [would make them dwell|would be pressing on it|is not what they are after].",
        "[I could mirror the mood|One could stay with the feeling], but [that would keep them where they are|it may come too close].",
        "[To dwell on the feeling|Holding the feeling up to the light] [could feel intrusive|would circle|makes it bigger than they want it now].",
        "[They know what they feel about {it}|They have named it themselves]; [I need not name it|telling them adds little].",
    ),
    "self-disclosure": (
        "[My own story|Talking about myself|An example from my life] [would turn it to me|would take up their room|is beside the point].",
        "[I could say I know it too|My own past comes to mind|I would like to bring in myself], but [it is their turn|that compares what should not be compared].",
        "[If I bring in my own life|Were I to start with my own story], [the talk would tip over to me|they would have to look after me].",
        "[My life is not the subject|It is not about what I went through], [however near it is|tempting as it may be].",
    ),
    "affirmation and reassurance": (
        "[Cheering them on|Telling them it will be fine|Praise] [would sound cheap|would close the subject|comes too easily].",
        "[I could reassure them|Comforting words are near], but [they would not believe it|that would skip over it].",
        "[Saying that {it} will be all right|Patting them on the back] [would be a promise I cannot keep|ends the talk too soon|brushes it aside].",
        "[Kind words alone|Encouragement alone] [would be thin here|would leave {it} where it is|would not meet what they said].",
    ),
    "providing suggestions": (
        "[Advice|A plan|A list of tips] [would come too early|would miss them|would tell them they are doing it wrong].",
        "[I could tell them what to do|I feel the pull to fix it|A solution is on my tongue], but [that is not what they are here for|they have not asked for that].",
        "[Tips about {it}|Solving {it} for them|A to-do list] [would sound as if it were simple|would rush them|puts me above them].",
        "[They did not come for a recipe|Nobody asked for a recipe]; [advice can wait|fixing it would be for my sake].",
    ),
    "information": (
        "[Facts|Explaining|A bit of theory] [would be cold|would talk past them|would not touch it].",
        "[I could explain how such things go|One could give them facts], but [they do not lack knowledge|it would turn into a lecture].",
        "[Numbers and facts about {it}|A lecture on {it}|Knowing better] [would put a wall between us|answers a question they did not ask].",
        "[It is not knowledge they lack, and teaching would sting|Explaining {it} to them would be beside the point|What they lack is not knowledge of {it}].",
    ),
    "others": (
        "[Small talk|A friendly phrase|Just being nice] [would be too little|would not do it justice|lets it slip away].",
        "[I could leave it at a kind word|One might simply nod], but [it deserves more|that would be a way out].",
        "[A nice phrase after {quote}|Chatting on] [would look away from it|is not enough|leaves them alone with it].",
        "[To wave it through|Being merely polite] [would be the easy way|would waste the moment|does not fit {it}].",
    ),
}  # fmt: skip
