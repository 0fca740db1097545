BEGIN TRANSACTION;
CREATE TABLE annotators (
	id INTEGER NOT NULL, 
	project INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	role VARCHAR(20) NOT NULL, 
	token VARCHAR(64), 
	paused BOOLEAN NOT NULL, 
	created FLOAT NOT NULL, 
	CONSTRAINT pk_annotators PRIMARY KEY (id), 
	CONSTRAINT uq_annotators_project_name UNIQUE (project, name), 
	CONSTRAINT fk_annotators_project FOREIGN KEY(project) REFERENCES projects (id), 
	CONSTRAINT uq_annotators_token UNIQUE (token)
);
INSERT INTO "annotators" VALUES(1,1,'anna','annotator','b1dc73ac83ce83da9cee179d0cc418ca18ff617cfea1f199944c67dfd53e477c',0,1800000000.0);
INSERT INTO "annotators" VALUES(2,1,'ben','annotator','adc8c25b2a05dafce57f62b1fc1b3ba7993bf92fc4edabe2d78c4c9f6b0ab79e',0,1800000000.0);
INSERT INTO "annotators" VALUES(3,1,'cora','coordinator','c6736c56f809cb83c008fcdf7a2d6fdd5298572664a7bcba2406be8d4328f404',0,1800000000.0);
INSERT INTO "annotators" VALUES(4,2,'anna','annotator','2f1db30b573e892fcf24252d05359bd327e8ed787128bcb03adc54e0681acdd6',0,1800000000.0);
CREATE TABLE arena_cases (
	id INTEGER NOT NULL, 
	project INTEGER NOT NULL, 
	name VARCHAR(500) NOT NULL, 
	position INTEGER NOT NULL, 
	content TEXT NOT NULL, 
	CONSTRAINT pk_arena_cases PRIMARY KEY (id), 
	CONSTRAINT uq_arena_cases_project_name UNIQUE (project, name), 
	CONSTRAINT fk_arena_cases_project FOREIGN KEY(project) REFERENCES projects (id)
);
INSERT INTO "arena_cases" VALUES(1,2,'case/0',0,'{"id":"case/0","history":[{"speaker":"seeker","text":"I lost my job, and this is the 0th time."},{"speaker":"supporter","text":"I am listening."},{"speaker":"seeker","text":"I do not know how to go on with it."}]}');
CREATE TABLE arena_leases (
	id INTEGER NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	slot INTEGER NOT NULL, 
	seat INTEGER, 
	"case" INTEGER NOT NULL, 
	one INTEGER NOT NULL, 
	two INTEGER NOT NULL, 
	annotator INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	opened FLOAT NOT NULL, 
	expires FLOAT NOT NULL, 
	finished FLOAT, 
	revision INTEGER NOT NULL, 
	note TEXT NOT NULL, 
	CONSTRAINT pk_arena_leases PRIMARY KEY (id), 
	CONSTRAINT uq_arena_leases_annotator_case_one_two UNIQUE (annotator, "case", one, two), 
	CONSTRAINT uq_arena_leases_name UNIQUE (name), 
	CONSTRAINT fk_arena_leases_slot FOREIGN KEY(slot) REFERENCES arena_slots (id), 
	CONSTRAINT uq_arena_leases_seat UNIQUE (seat), 
	CONSTRAINT fk_arena_leases_seat FOREIGN KEY(seat) REFERENCES arena_slots (id), 
	CONSTRAINT fk_arena_leases_case FOREIGN KEY("case") REFERENCES arena_cases (id), 
	CONSTRAINT fk_arena_leases_one FOREIGN KEY(one) REFERENCES arena_models (id), 
	CONSTRAINT fk_arena_leases_two FOREIGN KEY(two) REFERENCES arena_models (id), 
	CONSTRAINT fk_arena_leases_annotator FOREIGN KEY(annotator) REFERENCES annotators (id)
);
CREATE TABLE arena_models (
	id INTEGER NOT NULL, 
	project INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	position SMALLINT NOT NULL, 
	CONSTRAINT pk_arena_models PRIMARY KEY (id), 
	CONSTRAINT uq_arena_models_project_name UNIQUE (project, name), 
	CONSTRAINT fk_arena_models_project FOREIGN KEY(project) REFERENCES projects (id)
);
INSERT INTO "arena_models" VALUES(1,2,'A',0);
INSERT INTO "arena_models" VALUES(2,2,'B',1);
CREATE TABLE arena_replies (
	id INTEGER NOT NULL, 
	"case" INTEGER NOT NULL, 
	model INTEGER NOT NULL, 
	content TEXT NOT NULL, 
	CONSTRAINT pk_arena_replies PRIMARY KEY (id), 
	CONSTRAINT uq_arena_replies_case_model UNIQUE ("case", model), 
	CONSTRAINT fk_arena_replies_case FOREIGN KEY("case") REFERENCES arena_cases (id), 
	CONSTRAINT fk_arena_replies_model FOREIGN KEY(model) REFERENCES arena_models (id)
);
INSERT INTO "arena_replies" VALUES(1,1,1,'{"case":"case/0","model":"A","response":"Thank you for saying it. What has today been like? (1001)","reasoning":{"history":{"text":"They carry it alone.","stage":"exploration"},"emotion":{"text":"Worn out.","sentiment":"negative","emotion":"shame","intensity":4},"strategy":{"text":"Ask about today.","strategy":"question"},"language":"en"}}');
INSERT INTO "arena_replies" VALUES(2,1,2,'{"case":"case/0","model":"B","response":"It makes sense to feel this way. When did it begin? (1000)","reasoning":{"history":{"text":"They carry it alone.","stage":"exploration"},"emotion":{"text":"Worn out.","sentiment":"negative","emotion":"shame","intensity":4},"strategy":{"text":"Ask about today.","strategy":"question"},"language":"en"}}');
CREATE TABLE arena_skips (
	id INTEGER NOT NULL, 
	lease INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	reason TEXT NOT NULL, 
	distress BOOLEAN NOT NULL, 
	CONSTRAINT pk_arena_skips PRIMARY KEY (id), 
	CONSTRAINT fk_arena_skips_lease FOREIGN KEY(lease) REFERENCES arena_leases (id)
);
CREATE TABLE arena_slots (
	id INTEGER NOT NULL, 
	project INTEGER NOT NULL, 
	"case" INTEGER NOT NULL, 
	one INTEGER NOT NULL, 
	two INTEGER NOT NULL, 
	place SMALLINT NOT NULL, 
	one_left BOOLEAN NOT NULL, 
	position INTEGER NOT NULL, 
	CONSTRAINT pk_arena_slots PRIMARY KEY (id), 
	CONSTRAINT uq_arena_slots_case_one_two_place UNIQUE ("case", one, two, place), 
	CONSTRAINT fk_arena_slots_project FOREIGN KEY(project) REFERENCES projects (id), 
	CONSTRAINT fk_arena_slots_case FOREIGN KEY("case") REFERENCES arena_cases (id), 
	CONSTRAINT fk_arena_slots_one FOREIGN KEY(one) REFERENCES arena_models (id), 
	CONSTRAINT fk_arena_slots_two FOREIGN KEY(two) REFERENCES arena_models (id)
);
INSERT INTO "arena_slots" VALUES(1,2,1,1,2,1,0,0);
CREATE TABLE arena_votes (
	id INTEGER NOT NULL, 
	lease INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	choice VARCHAR(10) NOT NULL, 
	one_left BOOLEAN NOT NULL, 
	at FLOAT NOT NULL, 
	seconds FLOAT, 
	CONSTRAINT pk_arena_votes PRIMARY KEY (id), 
	CONSTRAINT uq_arena_votes_lease_revision UNIQUE (lease, revision), 
	CONSTRAINT fk_arena_votes_lease FOREIGN KEY(lease) REFERENCES arena_leases (id)
);
CREATE TABLE arenas (
	project INTEGER NOT NULL, 
	votes SMALLINT NOT NULL, 
	focus VARCHAR(200), 
	show_reasoning BOOLEAN NOT NULL, 
	closed FLOAT, 
	CONSTRAINT pk_arenas PRIMARY KEY (project), 
	CONSTRAINT fk_arenas_project FOREIGN KEY(project) REFERENCES projects (id)
);
INSERT INTO "arenas" VALUES(2,1,NULL,0,NULL);
CREATE TABLE audit_draws (
	item INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	CONSTRAINT pk_audit_draws PRIMARY KEY (item), 
	CONSTRAINT fk_audit_draws_item FOREIGN KEY(item) REFERENCES items (id)
);
CREATE TABLE compeer_annotation_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "compeer_annotation_version" VALUES('0002');
CREATE TABLE drafts (
	lease INTEGER NOT NULL, 
	answers TEXT NOT NULL, 
	note TEXT NOT NULL, 
	seconds FLOAT NOT NULL, 
	at FLOAT NOT NULL, 
	CONSTRAINT pk_drafts PRIMARY KEY (lease), 
	CONSTRAINT fk_drafts_lease FOREIGN KEY(lease) REFERENCES leases (id)
);
CREATE TABLE forms (
	form VARCHAR(64) NOT NULL, 
	annotator INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	CONSTRAINT pk_forms PRIMARY KEY (form), 
	CONSTRAINT fk_forms_annotator FOREIGN KEY(annotator) REFERENCES annotators (id)
);
CREATE TABLE items (
	id INTEGER NOT NULL, 
	project INTEGER NOT NULL, 
	name VARCHAR(500) NOT NULL, 
	position INTEGER NOT NULL, 
	questions VARCHAR(100) NOT NULL, 
	content TEXT NOT NULL, 
	images TEXT NOT NULL, 
	stage VARCHAR(10) NOT NULL, 
	rank SMALLINT NOT NULL, 
	begun_by INTEGER, 
	CONSTRAINT pk_items PRIMARY KEY (id), 
	CONSTRAINT uq_items_project_name UNIQUE (project, name), 
	CONSTRAINT fk_items_project FOREIGN KEY(project) REFERENCES projects (id)
);
INSERT INTO "items" VALUES(1,1,'d0#1',0,'history,emotion,strategy,preference','{"id":"d0#1","dialogue":"d0","source":"test","licence":"MIT","language":"en","round":1,"history":[{"speaker":"seeker","text":"I lost my job, number 0."}],"reference":"REF 0","candidate":{"response":"CAND 0","reasoning":{"history":{"text":"Lost job 0.","stage":"exploration"},"emotion":{"text":"Small.","sentiment":"negative","emotion":"shame","intensity":4},"strategy":{"text":"Ask.","strategy":"question"},"language":"en"},"generator":"secret"}}','[]','first',3,1);
INSERT INTO "items" VALUES(2,1,'d1#1',1,'history,emotion,strategy,preference','{"id":"d1#1","dialogue":"d1","source":"test","licence":"MIT","language":"zh","round":1,"history":[{"speaker":"seeker","text":"I lost my job, number 1."}],"reference":"REF 1","candidate":{"response":"CAND 1","reasoning":{"history":{"text":"Lost job 1.","stage":"exploration"},"emotion":{"text":"Small.","sentiment":"negative","emotion":"shame","intensity":4},"strategy":{"text":"Ask.","strategy":"question"},"language":"en"},"generator":"secret"}}','[]','first',1,NULL);
CREATE TABLE leases (
	id INTEGER NOT NULL, 
	item INTEGER NOT NULL, 
	turn VARCHAR(10) NOT NULL, 
	place SMALLINT, 
	questions VARCHAR(100) NOT NULL, 
	candidate_first BOOLEAN NOT NULL, 
	annotator INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	opened FLOAT NOT NULL, 
	expires FLOAT NOT NULL, 
	finished FLOAT, 
	revision INTEGER NOT NULL, 
	note TEXT NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (id), 
	CONSTRAINT uq_leases_item_annotator UNIQUE (item, annotator), 
	CONSTRAINT uq_leases_item_place UNIQUE (item, place), 
	CONSTRAINT fk_leases_item FOREIGN KEY(item) REFERENCES items (id), 
	CONSTRAINT fk_leases_annotator FOREIGN KEY(annotator) REFERENCES annotators (id)
);
INSERT INTO "leases" VALUES(1,1,'first',1,'history,emotion,strategy,preference',0,1,'done',1800000000.0,1800000900.0,1800000000.0,1,'');
CREATE TABLE projects (
	id INTEGER NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	created FLOAT NOT NULL, 
	seed INTEGER NOT NULL, 
	guideline VARCHAR(100) NOT NULL, 
	lease_seconds FLOAT NOT NULL, 
	undo_seconds FLOAT NOT NULL, 
	audit_share FLOAT NOT NULL, 
	images TEXT, 
	CONSTRAINT pk_projects PRIMARY KEY (id), 
	CONSTRAINT uq_projects_name UNIQUE (name)
);
INSERT INTO "projects" VALUES(1,'pilot',1800000000.0,1,'1',900.0,120.0,0.0,NULL);
INSERT INTO "projects" VALUES(2,'duel',1800000000.0,2,'1',900.0,120.0,0.0,NULL);
CREATE TABLE refusals (
	id INTEGER NOT NULL, 
	project INTEGER, 
	annotator INTEGER, 
	at FLOAT NOT NULL, 
	kind VARCHAR(40) NOT NULL, 
	detail TEXT NOT NULL, 
	address VARCHAR(100) NOT NULL, 
	CONSTRAINT pk_refusals PRIMARY KEY (id)
);
CREATE TABLE skips (
	id INTEGER NOT NULL, 
	lease INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	reason TEXT NOT NULL, 
	distress BOOLEAN NOT NULL, 
	CONSTRAINT pk_skips PRIMARY KEY (id), 
	CONSTRAINT fk_skips_lease FOREIGN KEY(lease) REFERENCES leases (id)
);
CREATE TABLE votes (
	id INTEGER NOT NULL, 
	lease INTEGER NOT NULL, 
	revision INTEGER NOT NULL, 
	item INTEGER NOT NULL, 
	annotator INTEGER NOT NULL, 
	turn VARCHAR(10) NOT NULL, 
	question VARCHAR(20) NOT NULL, 
	answer VARCHAR(20) NOT NULL, 
	at FLOAT NOT NULL, 
	seconds FLOAT, 
	candidate_first BOOLEAN, 
	guideline VARCHAR(100), 
	CONSTRAINT pk_votes PRIMARY KEY (id), 
	CONSTRAINT uq_votes_lease_revision_question UNIQUE (lease, revision, question), 
	CONSTRAINT fk_votes_lease FOREIGN KEY(lease) REFERENCES leases (id), 
	CONSTRAINT fk_votes_item FOREIGN KEY(item) REFERENCES items (id), 
	CONSTRAINT fk_votes_annotator FOREIGN KEY(annotator) REFERENCES annotators (id)
);
INSERT INTO "votes" VALUES(1,1,1,1,1,'first','history','true',1800000000.0,3.0,0,'1');
INSERT INTO "votes" VALUES(2,1,1,1,1,'first','emotion','true',1800000000.0,3.0,0,'1');
INSERT INTO "votes" VALUES(3,1,1,1,1,'first','strategy','true',1800000000.0,3.0,0,'1');
INSERT INTO "votes" VALUES(4,1,1,1,1,'first','preference','both',1800000000.0,3.0,0,'1');
CREATE INDEX ix_items_queue ON items (project, rank, position, begun_by);
CREATE INDEX ix_items_project_position ON items (project, position);
CREATE INDEX ix_leases_expiry ON leases (state, expires);
CREATE INDEX ix_leases_annotator_state ON leases (annotator, state);
CREATE INDEX ix_forms_at ON forms (at);
CREATE INDEX ix_arena_slots_queue ON arena_slots (project, position);
CREATE INDEX ix_votes_item ON votes (item);
CREATE INDEX ix_votes_annotator_seconds ON votes (annotator, seconds);
CREATE INDEX ix_skips_lease ON skips (lease);
CREATE INDEX ix_arena_leases_expiry ON arena_leases (state, expires);
COMMIT;
