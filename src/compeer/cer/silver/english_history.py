"""English for the first step: what they face (ISSUE), what was just said (MOMENT), where the talk stands (STANDING).

Slots: {fact} their own sentence told of them, {quote} and {last} verbatim with quotation marks, {topic} "their
boss", {problem} the corpus's problem in a few words, {count} how many exchanges there have been.
"""

# ruff: noqa: E501 - one pattern, one line

from __future__ import annotations

#: ESConv's problem types and those of our own corpus, as one would say them
PROBLEMS: dict[str, tuple[str, ...]] = {
    "ongoing depression": (
        "a low that will not lift", "a depression that has settled in", "feeling down for longer than they can explain",
        "a heaviness that is there every day", "months of being low",
    ),
    "job crisis": (
        "trouble over work", "a job that is gone or may go", "work and what hangs on it",
        "the ground giving way at work", "having to make a living when work is not safe",
    ),
    "breakup with partner": (
        "a relationship coming apart", "a breakup", "losing the person they were with",
        "the end of a relationship", "a partner who is leaving or gone",
    ),
    "problems with friends": (
        "friends who are not there the way they should be", "a friendship gone wrong", "trouble between friends",
        "a falling-out with people close to them", "not being treated like a friend by their friends",
    ),
    "academic pressure": (
        "pressure from school", "studies that have become too much", "exams, grades and the fear of failing them",
        "school weighing on them", "not keeping up with their studies",
    ),
    "sleep problems": ("nights without sleep", "not being able to sleep", "sleep that will not come"),
    "conflict with parents": ("a fight with their parents", "parents they cannot get through to"),
    "issues with parents": ("things unsettled with their parents", "what goes on between them and their parents"),
    "issues with children": ("worry over their children", "trouble with their children"),
    "appearance anxiety": ("how they look and what others may think of it", "not being able to stand how they look"),
    "alcohol abuse": ("drinking, and the wish to stop", "a drinking problem"),
    "procrastination": ("putting things off until it hurts", "not getting themselves to start"),
    "school bullying": ("being bullied at school",),
    "academic": ("pressure from school",),
    "breakup": ("a breakup", "the end of a relationship"),
    "relationship": ("trouble in a relationship", "something between them and their partner"),
    "family": ("something in the family", "family, and what it asks of them"),
    "friendship": ("a friendship under strain", "trouble with a friend"),
    "loss": ("a loss", "losing someone"),
    "health": ("their health", "what the body is doing to them"),
    "money": ("money", "money that does not reach"),
    "loneliness": ("being alone with it all", "loneliness"),
    "self-worth": ("what they think they are worth",),
    "parenting": ("being a parent", "a child, and whether they are doing right by it"),
    "migration": ("living far from home",),
    "guilt": ("something they did and cannot put down",),
    "everyday": ("an ordinary day that got too long",),
}  # fmt: skip

ISSUE = (
    "[So|Right,|As I read it,|Put together,|If I follow,|By their account] {fact}[, and the rest hangs on that|, and most of the talk circles round it|, and I would not lose sight of it].",
    "{Fact}[, that much is plain|. That is the centre of it|. Everything else leans on that|. I keep coming back to this| and it has not let go of them].",
    "{Fact}[. Small sentence, large thing|. They say it almost in passing|. It is said without decoration|. I believe them|. No wonder the talk goes where it goes].",
    "{Fact}[; {problem}, then| and so this is about {problem}|: {problem}, told from the inside].",
    "[Underneath|Beneath the details|Behind all of it|Below the surface|At the bottom of this] [is|lies] {problem}: {fact}.",
    "[What they are up against|What sits on them|What brought them here|What keeps them busy|What this comes down to] is {problem}, and the way they tell it, {fact}.",
    "[Someone|A person|A human being] [in the middle of|struggling with|worn down by|trying to live with] {problem}: {fact}.",
    "{Problem}[, plainly| is how I would name it|, and not since yesterday by the sound of it|, as far as I can see]. {Fact}.",
    "[The story so far|In short|What I have|The facts as given|Summed up]: {fact}.",
    "[They have let me know|I have learned|By now I know|It has come out|It took a while to come out] that {fact}.",
    "[Take away the small talk and|Strip it down and|Leave out the rest and|Look past the politeness and] {fact}; [that is {problem}|I would call it {problem}|there is {problem} in that].",
    "[It would be easy to hear only|One could stop at|I might get stuck on] {quote}, but [the larger thing|what carries it|what it belongs to] is {problem}.",
    "[Their own words for it|How they put it|In their voice]: {quote}. [I take that as|To me that points at|So the ground here is|Behind it I see] {problem}.",
    "{quote}[, they told me, and|, in their words, and|, and] [behind it|around it|under it] [lies|stands|sits] {problem}.",
    "[Not just a bad day|More than a passing mood|No small worry|Hardly a trifle]: {fact}[, and it has been working on them|, and they have been carrying it around|].",
    "The real [matter|trouble|question|knot] [seems to be|is, I think,|looks to me like|must be] {problem}[, since {fact}|, given that {fact}|; {fact}].",
    "[Whatever else comes up|However they wrap it|No matter how they turn it], {fact}[, and this is where it hurts|, and nobody has taken that off them|].",
    "[Between the lines it is|Between the lines I read|Read slowly, it is] {problem}; [out loud they say|the words they choose are|on the page it says] {quote}.",
    "[Nothing exotic here|An old story and a hard one|It happens to many and is no easier for that]: {problem}. {Fact}.",
    "[Several things are mixed up|There is more than one thread|A lot comes in at once], but {fact}, [and I would start from there|and the others follow from it|and that one pulls hardest].",
    "[Listening to|Going through|Rereading|Adding up] what they wrote, {problem} is the [thread|constant|common part]: {fact}.",
    "[When they say|By|With] {quote} they are [really |]telling me about {problem}.",
    "[What matters most so far|The line I would underline|The sentence that holds it all|Their key sentence] is {quote}[. It is {problem} in a few words|, and it is about {problem}|].",
    "[From everything said|Of all they wrote|Out of the whole talk] one [sentence|line] [stays with me|stands out|will not go away]: {quote}.",
    "[I hear about|It leads back to|Much is said of] {topic}[ again and again| in nearly every line|, and not by chance]; {fact}.",
    "[It turns on|It all turns on|Much of it turns on|The whole thing hangs on] {topic}: {fact}.",
    "[For them|In their life right now|Where they stand] {problem} is not an idea[, it is this|, it has a face|]: {fact}.",
    "[How did it come to this?|What is going on?|What happened here?|Where does it hurt?] {Fact}, [as they tell it|by their account|if I have it right].",
    "[Whatever it touches|Wherever I look|Pull any thread and], the root is {problem}; {fact}.",
    "[I picture it|I try to see it from their side|I put myself there]: {fact}[. That is {problem}, day in, day out|].",
    "[Money, people, pride, it could be anything|It could have been anything], but it is {problem}: {quote}.",
    "[On paper|To an outsider|From far away] this is {problem}. [To them|From close up|From where they sit] it is {quote}.",
    "[Had they only said|Even if they had only said|If all I had were] {quote}, I would [know|guess] it is about {problem}.",
    "[There is|I hear|I see] {problem} in [this|all of this|what they tell me], and {topic} in the middle of it: {quote}.",
    "[Somewhere along the way|Not long ago or long ago|At some point] {topic} became [the sore point|what it is all about]; {quote} [says as much|tells me so].",
    "[Two things belong together here|I hold two things side by side]: {fact}, and {fact2}.",
    "{Fact}, and {fact2}[: one makes the other harder|; I doubt these are two stories|. Both at once is a lot|. It adds up].",
    "[First|To begin with|Early on] {fact2}; [now|then|by now] {fact}. [The line between the two is the story|It has not got simpler|That is a road, not a point].",
    "{quote}[. And earlier|. Before that|. A while back, too]: {fact2}. [It fits together|I would not treat these apart|One voice, one trouble].",
)

MOMENT: dict[str, tuple[str, ...]] = {
    "any": (
        "[Just now|A moment ago|In their last message|Most recently] [they wrote|it was|they added|I read] {last}.",
        "[The latest|The newest thing|Where they left it|Their last word on it]: {last}.",
        "{last} [is where they left off|is the last thing I have from them|is what lies on the table now].",
        "[What is not said|What I do not know|What they leave out|What I would like to know] is [how long this has been going on|who else knows|what they have tried already|what they hope for from this talk|whether anyone stands by them].",
        "[Who else is in the room|Who they can lean on|How long this has lasted|What they want me to do with it] [I cannot tell yet|has not been said|stays open|nobody has asked].",
        "[They tell it|It comes] [in pieces|bit by bit|plainly|without much ornament], {last} [among the last of them|being the newest].",
        "They [mention|bring in|name] {topic}, and [I would not pass over that|that is no accident|it may matter more than it looks].",
        "[After|With] {count} [exchanges|rounds] [behind us|between us], [there is a thread to follow|I have some idea of the shape of it|we know each other a little].",
    ),
    "short": (
        "[Their last message is|The answer was|What came back was] [only a few words|barely a line|short]: {last}.",
        "[Few words|Not many words|A short answer] this time, [and more behind them than in them|so I should not read too much into it|which can mean a lot or nothing].",
    ),
    "long": (
        "[They wrote a good deal just now|It was a long message|The last message ran long], [as if it had been waiting|more than one thing in it|with {last} in the middle].",
        "[A lot came out at once|So much in one breath], and {last} is [the part I would keep|what stuck].",
    ),
    "asks": (
        "[They end on|They finish with|There is] a question [of their own|to me|for me], so [something is wanted back|they are not only telling|I should not leave it hanging].",
        "[They asked me something|A question is waiting]: {last}.",
    ),
    "thanks": (
        "[They are thanking me|There is thanks in it|A word of thanks came], [which can be an ending or only politeness|and I take it as meant|so we may be near a close].",
    ),
    "first": (
        "[This is|It is] [nearly the first thing|almost all] they have told me[, so I hold it loosely|, and much is still dark|].",
        "[We have only begun|Hardly a few lines have been exchanged|We are near the beginning], [and I know little|and the rest is guesswork].",
    ),
    "answered": (
        "[I had asked|There was a question from me], and [what came back was|the answer was|they said] {last}.",
        "They [took up the question|answered the question|did not dodge what was asked]: {last}.",
    ),
    "advised": (
        "[Something was suggested|An idea was put to them|A piece of advice went out] [a moment ago|before this], and [they came back with|the echo was] {last}.",
    ),
}  # fmt: skip

STANDING: dict[str, tuple[str, ...]] = {
    "exploration": (
        "[I know too little|There are too many gaps|The picture is too thin] [yet |still |]to [do more than find out|comfort or advise|be of use in any other way].",
        "[We are still|We are only|For now we are] [finding out what this is|getting the lie of the land|at the door of it|laying the pieces on the table].",
        "[The shape of it|The whole of it|How it hangs together] [is not clear yet|has yet to come out|still has to be told].",
        "[More has to be heard|They have more to tell|The telling is not done] before [anything else makes sense|anyone could say what helps|it is time for comfort or plans].",
        "[So this is the time to understand|It is a time for listening and asking|Understanding comes first here]; [the rest can wait|nothing needs solving yet|no hurry].",
        "[What is missing|What we lack] is [the story behind it|the middle of the story|how it really was], and [getting there is the work now|that comes first].",
        "[I would say|To my mind|As it stands] we are [still exploring|in the opening part|still opening it up][, not yet consoling, not yet planning|].",
        "[Half of it|Much of it|The larger part] is [still unsaid|not out yet|in the dark]. [That is where we are|So we stay with finding out].",
    ),
    "comforting": (
        "[Enough has been told|I know enough|The facts are out]; [what is missing is someone who stays with it|now it is about how it feels|it wants company more than questions].",
        "[It is not the moment for plans|No plan is called for|Solutions can wait]: [they need to be met in it|the feeling has to be held first|someone has to stand next to them].",
        "[We have come to|The talk has reached|We have got as far as] [the part that hurts|the feeling itself|where it is sore], and [that wants warmth|that is where to stay for a while].",
        "[By now it is less|It is less and less] about [what happened|the facts|getting the facts] than about [how they bear it|not being alone with it|being understood].",
        "[They have opened up|They have shown it|It is on the table], and [that should be received|that deserves care|what they need back is comfort] before [anything is fixed|we go on|any advice].",
        "[I would say|To my mind|As it stands] we are [in the middle part|past asking and before doing|at the point of comforting].",
        "[Being with them|Holding this|Staying close] is [what the talk is for right now|the stage we are at|the work now].",
        "[Something has been said that cannot be solved|There is nothing to repair in this minute]; [it can be shared|it can be eased|it can be carried by two].",
    ),
    "action": (
        "[The ground has been covered|We have been through it|It has been told and heard]; [now it is about what to do|they are turning towards a next step|the talk leans forward].",
        "[They are looking ahead|Their eyes are on what comes next|They are ready to move], [so steps can be talked about|and that is where we are|and we can go along].",
        "[It is time for|We are at|The talk has come to] [the practical part|what can be tried|something they can do with it].",
        "[Understanding has been given|Comfort has had its turn|The listening has done its part]; [a way forward is what is left|what remains is a next step|now a handle would help].",
        "[What could change|What they might do|How to go on from here] is [the open question now|what we have come to|on the table now].",
        "[I would say|To my mind|As it stands] we are [in the last part|at the point of doing something|near the end, where plans are made].",
        "[No need to dig further|Digging further would not help|The why is known]: [it is the how that counts now|a step, even a small one, is what is wanted].",
        "[The talk has moved on|We have moved on] from [what hurts|telling] to [what helps|what could be done], and [they came along|that is the stage we are at].",
    ),
}  # fmt: skip
